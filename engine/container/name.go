package container

import (
	"strconv"
	"strings"

	"moss/engine/fault"
)

// CheckName returns the name without its leading slash. fault.Invalid for a name that matches neither the pattern of
// document 3, section 8, /?[a-zA-Z0-9_-]+, nor the one that clients use because they need dots,
// /?[a-zA-Z0-9][a-zA-Z0-9_.-]*.
func CheckName(name string) (string, error) {
	bare := strings.TrimPrefix(name, "/")
	ok := bare != ""
	for i := 0; ok && i < len(bare); i++ {
		c := bare[i]
		ok = isAlnum(c) || c == '_' || c == '-' || c == '.' && isAlnum(bare[0])
	}
	if !ok {
		return "", fault.Invalid("Invalid container name (%s), only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed", name)
	}
	return bare, nil
}

// RandomName makes a name such as "shady_hornwort". intn returns a number from 0 up to but not including its argument
// (math/rand/v2.IntN). From the second try on a number is added, so that a caller whose name was taken gets on.
func RandomName(intn func(n int) int, try int) string {
	looks, plants := strings.Fields(adjectives), strings.Fields(plantNames)
	name := looks[intn(len(looks))] + "_" + plants[intn(len(plants))]
	if try == 0 {
		return name
	}
	span := 10
	for range min(try, 6) {
		span *= 10
	}
	return name + strconv.Itoa(intn(span))
}

// adjectives and plantNames hold no names of persons, and no word that would offend beside another.
const (
	adjectives = `airy amber ancient autumn basking bending blooming boreal branching brave breezy bright brisk bronze
calm carpeting chilly clever clinging cloudy coastal cool copper creeping crimson crisp damp dappled dawning deep dewy
dusky eager early earthy emerald evening fair feathery fine floating fluffy foggy fresh frosty gentle gilded
glad glossy golden green happy hardy hazy hidden humble icy jade jolly keen kind leafy light lively lofty lucky lunar
lush mellow merry mild misty modest morning mossy nimble noble northern olive open pale patient pearly placid polar
proud quick quiet rainy rising rooted rustic sandy scarlet shady shining shy silent silken silver sleepy slender smooth
snowy soft solar southern sparkling spring spry starry steady still stony summer sunny swaying swift tall tender thriving
tidal tiny tranquil trim upright velvet verdant vivid wandering warm wavy western wild windy winter wise witty woolly`
	plantNames = `acacia alder anemone aspen aster azalea bamboo barley basil beech bellflower bilberry birch bluebell
bogmoss bracken bramble broom bryum buckthorn burdock buttercup campion caraway catkin cedar celandine chervil chicory
clover clubmoss columbine comfrey coppice cornflower cowslip cranberry cress crocus cypress daisy
dandelion dogwood duckweed elder elm fern fir flax foxglove gentian ginkgo gorse haircap hawthorn hazel
heather hemlock holly hornbeam hornwort horsetail hyacinth iris ivy juniper kelp larch larkspur laurel lavender lichen
lilac lily linden liverwort lotus lupin maple marigold marram meadowsweet mint mistletoe moss mulberry myrtle nettle
oak oleander orchid osier pansy peony pine plantain poplar poppy primrose quince reed rosemary rowan rush saffron sage
sapling saxifrage sedge sequoia sorrel speedwell sphagnum spruce sundew swordmoss sycamore tamarack tansy teasel thistle
thyme tulip valerian verbena vetch violet walnut willow wintergreen woodruff wormwood yarrow yew`
)
