"""What people see: decisions in words, as a table, a picture and a page."""
