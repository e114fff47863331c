package lsp_test

func scripted(string) {}
