//! Skills: collections of tools, Agent Skills folders, and project instructions.
