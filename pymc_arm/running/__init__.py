"""Where and how chains run: options, runners, progress, memory and checkpoints."""
