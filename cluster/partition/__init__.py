"""How well a partition explains the distances: trees and their cuts, and joins and moves that raise the score."""
