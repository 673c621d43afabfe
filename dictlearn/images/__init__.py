"""Images as signals: patches, channels, preprocessing, cosine atoms, denoising, pictures of atoms."""
