package imagesvc

import (
	"testing"

	"moss/storage/storagetest"
)

func TestMain(m *testing.M) { storagetest.Main(m) }
