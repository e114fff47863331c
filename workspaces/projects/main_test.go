package projects_test

import (
	"testing"

	"github.com/parawork/parawork/testing/wstest"
)

func TestMain(m *testing.M) { wstest.Main(m) }
