"""Wrong calls by users, and the messages that refuse them."""
