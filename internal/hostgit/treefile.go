package hostgit

// TreeFile is one file of a commit, exactly as in its tree: no attribute, filter or configuration applies.
type TreeFile struct {
	Path string
	Mode uint32 // 0o100644, 0o100755, 0o120000 (its content is where the link leads), 0o160000 (a submodule)
	Size int64
	OID  string
}

// Link reports whether the file is a symbolic link.
func (f TreeFile) Link() bool { return f.Mode == 0o120000 }

// Module reports whether the entry is a submodule, which has no content here.
func (f TreeFile) Module() bool { return f.Mode == 0o160000 }
