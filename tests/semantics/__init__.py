"""Each rule of docs/semantics.md as small programs: the interpreter and native code against numbers written by hand."""
