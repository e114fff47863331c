package guest

// A bundle is a file the host sends in pieces into the guest's own folder and has unpacked there: a workspace's repository and files
// for a sandbox with a disk of its own, or objects it lacks. It is a tar archive. Its first entry is the plan; the others are, by
// their first part: "git/" for git's folder, "tree/" for the worktree, and the two lists. Everything is written below the root.
const (
	BundlePlanEntry  = "plan.json"
	BundleGit        = "git/"
	BundleTree       = "tree/"
	BundleGone       = "gone"  // paths that are removed after the checkout, each ended by NUL
	BundleStaged     = "index" // what differs from HEAD in the index, as git update-index -z --index-info reads it
	BundleShallow    = "shallow"
	MaxBundle        = 64 << 30 // bytes of a bundle
	MaxBundlePiece   = 1 << 20  // bytes of one piece
	MaxBundleEntries = 4 << 20  // files in one
	MaxBundleList    = 1 << 30  // bytes of one of the lists
)

// BundleKind says what a bundle is for.
type BundleKind string

// Kinds of bundles.
const (
	// BundleWorktree makes a worktree in an empty root: git's folder, the checkout of its HEAD, then what differs from that.
	BundleWorktree BundleKind = "worktree"
	// BundleObjects brings objects to the git folder that is there, and commits whose parents it does not have.
	BundleObjects BundleKind = "objects"
)

// BundlePlan is a bundle's first entry.
type BundlePlan struct {
	Kind  BundleKind `json:"kind"`
	Files int64      `json:"files"` // entries below tree/
	Bytes int64      `json:"bytes"` // of all entries
}

// BundleState says how far a bundle is.
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
	UnpackFiles    = "files"    // what differs from them; files
)

// Bundle is how far a bundle has come.
type Bundle struct {
	ID    string      `json:"id"`
	State BundleState `json:"state"`
	Have  int64       `json:"have"` // bytes from its beginning that are there
	Step  string      `json:"step,omitempty"`
	Done  int64       `json:"done,omitempty"`
	All   int64       `json:"all,omitempty"`
	Error *ErrorBody  `json:"error,omitempty"` // of one that failed
}

// UnpackRequest says what has been sent.
type UnpackRequest struct {
	Size int64  `json:"size"`
	Hash string `json:"hash"` // sha256 of all of it, in hex
}

// CheckBundleID says whether id can be the name of a bundle: letters, digits, "_" and "-".
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
