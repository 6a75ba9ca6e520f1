{# The window of this run. Here: the two ends as literals, and the filter that every windowed model uses. #}

{% macro in_window(column) -%}
    {{ column }} >= toDateTime64('{{ var("window_start") }}', 6, 'UTC')
    and {{ column }} < toDateTime64('{{ var("window_end") }}', 6, 'UTC')
{%- endmacro %}
