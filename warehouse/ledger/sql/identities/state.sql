SELECT version, from_version, target_version, phase, cursor_id, ceiling_id FROM url_identity_state WHERE id = 1;
