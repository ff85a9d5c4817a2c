"""`sluice model …`: commands that train, publish and judge models."""
