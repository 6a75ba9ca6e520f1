{# Column lists that several models share. #}

{# The order that an edge's observations are folded in. #}
{% macro position(prefix='') -%}
    ({{ prefix }}observed_at, {{ prefix }}observation_id)
{%- endmacro %}

{# What an observation says of itself. The first two are its position: tuples of these sort in folding order. #}
{% macro observation_columns() %}
    {{ return([
        'observed_at', 'observation_id', 'ingest_version', 'window_start', 'tenant_id', 'idempotency_key',
        'source_url_id', 'source_url', 'source_url_hash', 'source_registrable_domain',
        'target_url_id', 'target_url', 'target_url_hash', 'target_rule_ids',
        'evidence', 'evidence_reason', 'evidence_complete',
        'source_fetch_health', 'source_http_status', 'source_final_url', 'source_is_redirected',
        'source_robots_indexable', 'source_canonical_url',
        'target_fetch_health', 'target_http_status', 'target_final_url', 'target_is_redirected',
        'target_robots_indexable', 'response_time_ms',
    ]) }}
{% endmacro %}

{# What it says of the link, when the link was found. History keeps these as of the last found evidence, as seen_<name>. #}
{% macro link_columns() %}
    {{ return([
        'link_url', 'link_count', 'tolerated', 'anchor_text', 'is_image_link', 'rel_nofollow', 'rel_ugc', 'rel_sponsored',
        'follow', 'is_redirected', 'placement', 'page_title', 'html_lang',
    ]) }}
{% endmacro %}

{# The state after an observation: what the fold carries from row to row. #}
{% macro state_columns() %}
    {{ return([
        'state', 'misses', 'first_miss_at', 'ever_live', 'first_live_at', 'last_live_at', 'lost_at', 'state_version',
        'known_properties',
    ]) }}
{% endmacro %}

{# The properties whose changes are events of their own, with the value that is compared. `known` says when the evidence
   knows the value at all: an unchecked target, an unread robots rule or an unrecognised placement is no change.
   Values are never NULL: they are hashed, and the hash of a NULL is NULL, or depends on what lies beneath it. #}
{% macro properties() %}
    {{ return([
        {'name': 'rel', 'value': '(rel_nofollow, rel_ugc, rel_sponsored, ifNull(toString(follow), \'\'))', 'known': 'true'},
        {'name': 'anchor', 'value': "(is_image_link, ifNull(anchor_text, ''))", 'known': 'true'},
        {'name': 'placement', 'value': "ifNull(toString(placement), '')", 'known': "ifNull(placement, 'unknown') != 'unknown'"},
        {'name': 'redirect', 'value': '(is_redirected, source_is_redirected)', 'known': 'true'},
        {'name': 'source_indexability', 'value': 'ifNull(source_robots_indexable, false)', 'known': 'source_robots_indexable is not null'},
        {'name': 'source_canonical', 'known': 'true',
         'value': "if(ifNull(source_canonical_url, '') in (source_url, ifNull(source_final_url, '')), '', "
                  "ifNull(source_canonical_url, ''))"},
        {'name': 'target_health', 'value': 'toString(target_fetch_health)', 'known': "target_fetch_health != 'unknown'"},
        {'name': 'target_indexability', 'value': 'ifNull(target_robots_indexable, false)', 'known': 'target_robots_indexable is not null'},
        {'name': 'target_redirect', 'known': "target_fetch_health = 'ok'",
         'value': "if(target_is_redirected, ifNull(target_final_url, 'redirected'), '')"},
    ]) }}
{% endmacro %}
