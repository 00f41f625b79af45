"""From a subject to a report: run the properties, name the slip, explain the error."""
