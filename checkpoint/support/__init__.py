"""What knows no schedule: checks, tables, byte sizes."""
