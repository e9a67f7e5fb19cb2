"""The store of a small workbench: engines, conversations and changesets."""
