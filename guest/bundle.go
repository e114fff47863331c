package guest

// A bundle is a file that the host sends in pieces into the guest's own folder and has unpacked there: a workspace's repository
// and files for a sandbox with its own disk, or objects it lacks. It is a tar archive. Its first entry is the plan; the first
// part of their names distinguishes the others: "git/" for git's folder, "tree/" for the worktree, and the two lists. Everything
// is written below the root.
const (
	BundlePlanEntry  = "plan.json"
	BundleGit        = "git/"
	BundleTree       = "tree/"
	BundleGone       = "gone"  // paths to remove after the checkout, each ended by NUL
	BundleStaged     = "index" // differences from HEAD in the index, in the format of git update-index -z --index-info
	BundleShallow    = "shallow"
	MaxBundle        = 64 << 30 // bytes of a bundle
	MaxBundlePiece   = 1 << 20  // bytes of one piece
	MaxBundleEntries = 4 << 20  // files in a bundle
	MaxBundleList    = 1 << 30  // bytes of one of the lists
)

// BundleKind is the purpose of a bundle.
type BundleKind string

// Kinds of bundles.
const (
	// BundleWorktree creates a worktree in an empty root: git's folder, the checkout of its HEAD, then the differences from that.
	BundleWorktree BundleKind = "worktree"
	// BundleObjects adds objects to the existing git folder, and commits whose parents it does not have.
	BundleObjects BundleKind = "objects"
)

// BundlePlan is a bundle's first entry.
type BundlePlan struct {
	Kind  BundleKind `json:"kind"`
	Files int64      `json:"files"` // entries below tree/
	Bytes int64      `json:"bytes"` // of all entries
}

// BundleState is the progress of a bundle.
type BundleState string

// States of a bundle.
const (
	BundleComing    BundleState = "coming"
	BundleUnpacking BundleState = "unpacking"
	BundleDone      BundleState = "done"
	BundleFailed    BundleState = "failed"
)

// Steps of unpacking.
const (
	UnpackGit      = "git"      // git's folder; bytes
	UnpackCheckout = "checkout" // the files of HEAD, written by git; files
	UnpackFiles    = "files"    // the differences from them; files
)

// Bundle describes the progress of a bundle.
type Bundle struct {
	ID    string      `json:"id"`
	State BundleState `json:"state"`
	Have  int64       `json:"have"` // bytes received from its beginning on
	Step  string      `json:"step,omitempty"`
	Done  int64       `json:"done,omitempty"`
	All   int64       `json:"all,omitempty"`
	Error *ErrorBody  `json:"error,omitempty"` // of a failed one
}

// UnpackRequest describes what has been sent.
type UnpackRequest struct {
	Size int64  `json:"size"`
	Hash string `json:"hash"` // sha256 of all of it, in hex
}

// CheckBundleID reports whether id is valid as a bundle's ID: letters, digits, "_" and "-".
func CheckBundleID(id string) bool {
	if id == "" || len(id) > 100 {
		return false
	}
	for _, c := range []byte(id) {
		if c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return true
}
