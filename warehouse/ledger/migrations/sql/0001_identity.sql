-- Blueprint chapter 6: who may enter. A schema of its own; the ledger knows only an opaque tenant_id (= organizations.id).
-- Corrections: as in domain 1. `{identity}` is the name of that schema.

CREATE TABLE IF NOT EXISTS {identity}.users (
  id                    BINARY(16) PRIMARY KEY,
  auth_subject          VARCHAR(255) NOT NULL,
  email                 VARCHAR(320) COLLATE utf8mb4_0900_ai_ci NOT NULL,
  display_name          VARCHAR(255),
  status                ENUM('active', 'suspended', 'deleted') NOT NULL DEFAULT 'active',
  created_at            DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  updated_at            DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)) ON UPDATE CURRENT_TIMESTAMP(6),
  UNIQUE KEY users_auth_subject_uniq (auth_subject),
  UNIQUE KEY users_email_uniq (email)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS {identity}.organizations (
  id                    BINARY(16) PRIMARY KEY,
  name                  VARCHAR(255) NOT NULL,
  slug                  VARCHAR(191) COLLATE utf8mb4_0900_ai_ci NOT NULL,
  plan_code             VARCHAR(64) NOT NULL DEFAULT 'free',
  status                ENUM('active', 'suspended', 'closed') NOT NULL DEFAULT 'active',
  created_at            DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  updated_at            DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)) ON UPDATE CURRENT_TIMESTAMP(6),
  UNIQUE KEY organizations_slug_uniq (slug)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS {identity}.organization_members (
  organization_id       BINARY(16) NOT NULL,
  user_id               BINARY(16) NOT NULL,
  role                  ENUM('owner', 'admin', 'analyst', 'viewer') NOT NULL,
  created_at            DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  updated_at            DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)) ON UPDATE CURRENT_TIMESTAMP(6),
  PRIMARY KEY (organization_id, user_id),
  CONSTRAINT organization_members_org_fk FOREIGN KEY (organization_id)
    REFERENCES {identity}.organizations(id) ON DELETE CASCADE,
  CONSTRAINT organization_members_user_fk FOREIGN KEY (user_id)
    REFERENCES {identity}.users(id) ON DELETE CASCADE,
  KEY organization_members_user_idx (user_id, organization_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;

CREATE TABLE IF NOT EXISTS {identity}.organization_invitations (
  id                    BINARY(16) PRIMARY KEY,
  organization_id       BINARY(16) NOT NULL,
  email                 VARCHAR(320) COLLATE utf8mb4_0900_ai_ci NOT NULL,
  role                  ENUM('owner', 'admin', 'analyst', 'viewer') NOT NULL,
  token_hash            BINARY(32) NOT NULL,
  status                ENUM('pending', 'accepted', 'revoked', 'expired')
                          NOT NULL DEFAULT 'pending',
  invited_by_user_id    BINARY(16) NOT NULL,
  accepted_by_user_id   BINARY(16),
  expires_at            DATETIME(6) NOT NULL,
  accepted_at           DATETIME(6) NULL,
  created_at            DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  pending_email         VARCHAR(320) COLLATE utf8mb4_0900_ai_ci GENERATED ALWAYS AS
                          (CASE WHEN status = 'pending' THEN email ELSE NULL END) STORED,
  CONSTRAINT organization_invitations_org_fk FOREIGN KEY (organization_id)
    REFERENCES {identity}.organizations(id) ON DELETE CASCADE,
  CONSTRAINT organization_invitations_inviter_fk FOREIGN KEY (invited_by_user_id)
    REFERENCES {identity}.users(id),
  CONSTRAINT organization_invitations_acceptor_fk FOREIGN KEY (accepted_by_user_id)
    REFERENCES {identity}.users(id),
  UNIQUE KEY organization_invitations_token_uniq (token_hash),
  UNIQUE KEY one_pending_invitation_per_org_email (organization_id, pending_email)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
