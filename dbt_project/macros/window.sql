{# The window of this run. Here: the filter that every windowed model and test uses. #}

{% macro in_window(column) -%}
    {{ column }} >= toDateTime64('{{ var("window_start") }}', 6, 'UTC')
    and {{ column }} < toDateTime64('{{ var("window_end") }}', 6, 'UTC')
{%- endmacro %}

{# `where: __window__` of a generic test means the window of this run. A `var` there would be read when the project is
   parsed, which a warm process does once for all windows. #}
{% macro get_where_subquery(relation) -%}
    {%- set where = (config.get('where') or '') | replace('__window__', in_window('window_start')) -%}
    {%- if where -%}
        {%- do return('(select * from ' ~ relation ~ ' where ' ~ where ~ ') as dbt_subquery') -%}
    {%- else -%}
        {%- do return(relation) -%}
    {%- endif -%}
{%- endmacro %}
