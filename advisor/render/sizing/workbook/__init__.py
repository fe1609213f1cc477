"""`advisor.report/1` as a workbook with live numbers: XLSX."""
