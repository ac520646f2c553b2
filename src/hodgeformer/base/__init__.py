"""What everything stands on: errors, containers, settings, files, memory, threads, colors."""
