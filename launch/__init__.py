"""Starting the same program on one machine, several processes, or a pod."""
