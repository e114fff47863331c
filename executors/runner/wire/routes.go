package wire

// What the machine answers. All paths are below /v1 of the HTTP/2 in the tunnel; errors are an Error as JSON with the status of its kind.
//
//	GET    /v1/hello                        Hello
//	GET    /v1/events                       Event lines, until the connection ends; the first is a hello
//	GET    /v1/sandboxes                    {"items": [Sandbox]}: everything of ours that exists there
//	GET    /v1/sandboxes/{id}               Sandbox; 404 when it no longer exists
//	POST   /v1/sandboxes                    command: Make -> Progress lines
//	DELETE /v1/sandboxes/{id}               command: ends everything in it and removes it; idempotent
//	POST   /v1/sandboxes/{id}/pause         command
//	POST   /v1/sandboxes/{id}/resume        command
//	PUT    /v1/sandboxes/{id}/limits        command: Limits
//	GET    /v1/sandboxes/{id}/figures       Figures
//	POST   /v1/sandboxes/{id}/pipe          a pipe to its guest: the bodies of request and answer are its two ways. The machine reads along
//	                                        who asks for what (executors/runner/guard): requests that start or write something carry CommandHeader
//	GET    /v1/folders                      {"items": [Folder]}
//	POST   /v1/folders/bundle               command: BundleAsk -> a git bundle of an allowed folder's branches
//	POST   /v1/folders/borrow               command: LendRequest -> Borrowed: what a workspace's repository there need not be sent
//	POST   /v1/folders/copy                 command: CopyAsk -> Copied: ignored files of its folder are copied into a sandbox's worktree
//	POST   /v1/folders/deliver              command: DeliverAsk -> Delivered: a workspace's branch becomes one of its folder's repository

// BundleAsk requests what a folder's repository has and the server has not.
type BundleAsk struct {
	Path string   `json:"path"`
	Have []string `json:"have,omitempty"` // commits the server has
}

// LendRequest asks which commits an allowed folder has, when it names none, and otherwise to retain those it names for a workspace that
// shares their objects.
type LendRequest struct {
	WorkspaceID string   `json:"workspace_id"`
	Path        string   `json:"path"`
	Commits     []string `json:"commits,omitempty"`
}

// Lent says which objects of a folder's repository a workspace there can share. Sandboxes made with this Make.Folder mount the objects.
type Lent struct {
	Tips    []string `json:"tips,omitempty"`    // commits its branches are at, the newest first
	Commits []string `json:"commits,omitempty"` // of those asked for: the machine retains them until the workspace ends
	Objects []string `json:"objects,omitempty"` // object folders as the sandbox sees them; none = nothing can be shared
	Reason  string   `json:"reason,omitempty"`  // why nothing can be shared
}

// CopyAsk requests that files of a sandbox's folder which git ignores are copied into its worktree. They never leave the machine.
type CopyAsk struct {
	SandboxID string   `json:"sandbox_id"`
	Patterns  []string `json:"patterns"`
}

// Copied returns their names.
type Copied struct {
	Files []string `json:"files"`
}

// DeliverAsk requests that the branch of a sandbox's workspace is put into the repository of its folder.
type DeliverAsk struct {
	SandboxID string `json:"sandbox_id"`
	Branch    string `json:"branch"`
}

// Delivered returns the commit of the branch there now.
type Delivered struct {
	Branch string `json:"branch"`
	Commit string `json:"commit"`
}
