"""What a run must survive: hostile numbers, models, files, signals, disks and too little memory."""
