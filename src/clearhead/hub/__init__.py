"""Model folders in the Hugging Face layout: opening, saving, converting, LoRA adapters."""
