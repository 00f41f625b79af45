"""Bad submissions and what must become of each: cases by kind, in one table."""
