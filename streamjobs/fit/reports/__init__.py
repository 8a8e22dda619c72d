"""Reports how new people are recognised: findings, a text, a table and a page."""
