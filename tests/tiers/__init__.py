"""Run every tier of the checks in order and say at the end what ran, what failed and what could not run here."""
