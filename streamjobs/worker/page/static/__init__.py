"""What browsers get: the page, its scripts and style, and uPlot 1.6.32 (MIT, uPlot.LICENSE) as its authors published it."""
