// Command agentpackages prints the npm packages of the agents Parawork knows, with the versions it was tried with: what the tests of real
// agents are run with. See testing/scripts/test-setup.sh.
package main

import (
	"fmt"

	"github.com/parawork/parawork/sessions/agents"
)

func main() {
	for _, p := range agents.Packages() {
		fmt.Println(p)
	}
}
