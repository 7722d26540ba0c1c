"""Tables, paragraphs and progress bars for a terminal."""
