package guest

// A parcel is a file the host sends in pieces into the guest's own folder and has unpacked there: a workspace's repository and files
// for a sandbox with a disk of its own, or objects it lacks. It is a tar archive. Its first entry is the plan; the others are, by
// their first part: "git/" for git's folder, "tree/" for the worktree, and the two lists. Everything is written below the root.
const (
	ParcelPlanEntry  = "plan.json"
	ParcelGit        = "git/"
	ParcelTree       = "tree/"
	ParcelGone       = "gone"  // paths that are removed after the checkout, each ended by NUL
	ParcelStaged     = "index" // what differs from HEAD in the index, as git update-index -z --index-info reads it
	ParcelShallow    = "shallow"
	MaxParcel        = 64 << 30 // bytes of a parcel
	MaxParcelPiece   = 1 << 20  // bytes of one piece
	MaxParcelEntries = 4 << 20  // files in one
	MaxParcelList    = 1 << 30  // bytes of one of the lists
)

// ParcelKind says what a parcel is for.
type ParcelKind string

// Kinds of parcels.
const (
	// ParcelWorktree makes a worktree in an empty root: git's folder, the checkout of its HEAD, then what differs from that.
	ParcelWorktree ParcelKind = "worktree"
	// ParcelObjects brings objects to the git folder that is there, and commits whose parents it does not have.
	ParcelObjects ParcelKind = "objects"
)

// ParcelPlan is a parcel's first entry.
type ParcelPlan struct {
	Kind  ParcelKind `json:"kind"`
	Files int64      `json:"files"` // entries below tree/
	Bytes int64      `json:"bytes"` // of all entries
}

// ParcelState says how far a parcel is.
type ParcelState string

// States of a parcel.
const (
	ParcelComing    ParcelState = "coming"
	ParcelUnpacking ParcelState = "unpacking"
	ParcelDone      ParcelState = "done"
	ParcelFailed    ParcelState = "failed"
)

// Steps of unpacking.
const (
	UnpackGit      = "git"      // git's folder; bytes
	UnpackCheckout = "checkout" // the files of HEAD, written by git; files
	UnpackFiles    = "files"    // what differs from them; files
)

// Parcel is how far a parcel has come.
type Parcel struct {
	ID    string      `json:"id"`
	State ParcelState `json:"state"`
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

// CheckParcelID says whether id can be the name of a parcel: letters, digits, "_" and "-".
func CheckParcelID(id string) bool {
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
