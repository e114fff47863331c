package executors

import (
	"context"
	"flag"
	"io"

	"github.com/parawork/parawork/executors/images/recipe"
	"github.com/parawork/parawork/internal/schema"
)

// Verb is a command of the command line that belongs to a kind of place: parawork <kind> <name>.
type Verb struct {
	Name  string // may be of several words, such as "template build"
	Flags string // what goes behind it, for lists of commands
	Usage string // everything about it, as it is printed for who asks
	Run   func(ctx context.Context, c CommandLine) error
}

// CommandLine is what a Verb is called with.
type CommandLine struct {
	Args   []string         // behind the verb's name
	Agents []recipe.Package // what images and templates hold of agents
	Output io.Writer
	// Parse reads the flags of fs; those not given come from their twins in the environment. What is wrong has been printed when it fails.
	Parse func(fs *flag.FlagSet, args []string) error
	// Config reads config.json ("" = the usual one): what it says of the kind, and the folder of its data.
	Config func(file string) (v schema.Values, dataDir string, err error)
	// Guest finds the guest's binary, or unpacks it into the folder of the data.
	Guest func(dataDir string) (string, error)
}
