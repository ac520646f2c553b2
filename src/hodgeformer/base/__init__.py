"""The foundations: errors, containers, settings, files, memory, threads, colors."""
