"""What each rank does in a collective, as rounds and as actions, and the proof that it is that collective."""
