"""What each issue must show, so that anybody can look again: `make show-NAME`."""
