"""Raw text -> token ids: documents, sentences, tokenizer, token store.  No torch here."""
