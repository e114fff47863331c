package workspaces

// Cloned reports whether the repository is the server's own clone of a remote one.
func (p Project) Cloned() bool { return p.SourceKind == SourceURL || p.SourceKind == SourceRunner }
