"""What lectures on language models need of Headrace: studies, experiments, older models, pictures and tables."""
