"""Published results, repeated: each experiment sets what a paper reports beside what is measured here."""
