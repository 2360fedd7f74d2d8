"""All rows, by group."""

import rows_api
import rows_config
import rows_files
import rows_http
import rows_logs
import rows_process
import rows_self
import rows_state
import rows_tenants

MODULES = [rows_self, rows_files, rows_logs, rows_state, rows_process, rows_http, rows_api, rows_config,
           rows_tenants]
ROWS = [row for module in MODULES for row in module.ROWS]

assert len({row.name for row in ROWS}) == len(ROWS), "names of rows are unique"
