package sessions_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/parawork/parawork/testing/testmodel"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		testmodel.Cleanup()
		os.Exit(code)
	}))
}
