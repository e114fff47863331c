package workspaces

// Cloned reports whether the repository is the server's own copy of one elsewhere.
func (p Project) Cloned() bool { return p.SourceKind == SourceURL || p.SourceKind == SourceRunner }
