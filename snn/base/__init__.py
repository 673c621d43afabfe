"""What every room of snn uses: argument checks, archives, HTML, warnings."""
