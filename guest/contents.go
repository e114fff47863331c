package guest

// Limits of one request for contents.
const (
	MaxContents      = 1000    // files asked for
	MaxContentsBytes = 8 << 20 // bytes after which no further file is begun: the rest is asked for again
	MaxContentPiece  = 4 << 20 // bytes of one file in one answer; a larger one comes in pieces
	MaxWalk          = 20_000  // entries of one walk
)

// ContentsRequest asks for what is in files of the worktree, or with ScopeHome in those of the home.
type ContentsRequest struct {
	Scope string        `json:"scope,omitempty"`
	Items []ContentItem `json:"items"`
}

// ContentItem asks for one file. Path is in the wire form of EncodePath.
type ContentItem struct {
	Path   string `json:"path"`
	Have   string `json:"have,omitempty"`   // sha256 hex of what the host has: where the file is the same its bytes are not sent
	ID     string `json:"id,omitempty"`     // to go on with a file that comes in pieces: as told with the piece before
	Offset int64  `json:"offset,omitempty"` // likewise: from where
}

// Content is one record of the answer: what there is of an item, and how many of its bytes follow the record. Each stands in a
// record of AppendRecord. Items are answered in their order; when the answer ends early the rest was not begun.
type Content struct {
	Index  int    `json:"index"` // of the item
	State  string `json:"state"`
	Mode   string `json:"mode,omitempty"`  // as git writes it: 100644, 100755, 120000
	Perm   uint32 `json:"perm,omitempty"`  // permission bits, in the home
	Mtime  int64  `json:"mtime,omitempty"` // ms UTC
	Size   int64  `json:"size"`            // of the whole file
	Hash   string `json:"hash,omitempty"`  // sha256 hex of the whole file, where it was read whole
	ID     string `json:"id,omitempty"`    // tells this state of the file from any other, with ContentPiece
	Offset int64  `json:"offset,omitempty"`
	Length int64  `json:"length"` // bytes that follow: the file, a piece of it, or where a link leads
}

// States of a Content.
const (
	ContentWhole = "whole" // all of the file follows
	ContentPiece = "piece" // a part of it follows
	ContentLink  = "link"  // where the link leads follows
	ContentSame  = "same"  // it is what the host has
	ContentMoved = "moved" // it was written to while it was read: ask again
	ContentGone  = "gone"  // there is no such file
	ContentOther = "other" // it is a folder, a device or the like, or may not be read
)

// WalkRequest asks for what lies below folders or files of the home.
type WalkRequest struct {
	Roots []string `json:"roots"`          // in wire form
	Skip  []string `json:"skip,omitempty"` // names, relative to the home in wire form, that are left out with all below them
}

// WalkAnswer is what lies there: regular files, links and folders, in no order.
type WalkAnswer struct {
	Items     []FileInfo `json:"items"`
	Truncated bool       `json:"truncated"` // there is more
}

// MaxPacked bounds one file sent into the home.
const MaxPacked = 256 << 20

// Packed is one record of what is sent into the home, followed by Length bytes. Paths are in wire form.
type Packed struct {
	Path   string `json:"path"`
	Perm   uint32 `json:"perm"`
	Mtime  int64  `json:"mtime,omitempty"` // ms UTC
	Link   string `json:"link,omitempty"`  // where it leads, in the wire form; then no bytes follow
	Length int64  `json:"length"`
}
