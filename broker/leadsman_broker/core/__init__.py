"""The broker's judgement, pure: commands and time in, results and row changes out."""
