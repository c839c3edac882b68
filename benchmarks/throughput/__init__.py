"""What ``benchmarks.scheduler`` measures with: the forms of a scheduler, one round of pods, and the page about them."""
