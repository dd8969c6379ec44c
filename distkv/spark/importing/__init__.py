"""What the job `import` does with files: `records` reads them, `templates` and `arrow_values` make a path and a value
of each, and `import_rows` are the steps that workers carry out.
"""
