"""The catalogue: data sets by name, with where they come from, on what terms, and what every byte of them must be."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RemoteFile:
    """A file of a data set, as its source has it, and where it can be fetched, if anywhere."""

    name: str
    sha256: str
    size: int
    url: str | None = None


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """A data set: what it is for, where it comes from, what may be done with it, and its files."""

    name: str
    title: str
    examples: int
    source: str
    licence: str
    files: tuple[RemoteFile, ...]
    about: str

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


def _files(listed: str, *bases: str) -> tuple[RemoteFile, ...]:
    """Files from lines of SHA-256, size and name; their address is `base + name`, one base for all or for each."""
    lines = [line.split(maxsplit=2) for line in listed.strip().split("\n")]
    addresses = bases * len(lines) if len(bases) == 1 else bases or (None,) * len(lines)
    return tuple(
        RemoteFile(name, digest, int(size), None if base is None else base + name)
        for (digest, size, name), base in zip(lines, addresses, strict=True)
    )


_ALL = (
    DataSet(
        name="multi30k",
        title="translation en, de, fr",
        examples=33_085,
        licence="none stated",
        source="multi30k/dataset at a3d2e0d26b56 (data/task1/raw)",
        about=(
            "29,000 train, 1,014 val, 1,000 + 1,000 + 1,071 test (Flickr 2016, 2017, 2018), in English, German and "
            "French: captions of pictures, untokenised, one a line; line n of one language translates line n of the "
            "others. The repository states no licence."
        ),
        files=_files(
            """
            9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8    22890 test_2016_flickr.de.gz
            611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9    21077 test_2016_flickr.en.gz
            6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90    22310 test_2016_flickr.fr.gz
            a2c89666db00c495cd8513b9d708d5a3acc205d7de312ef2bf5fb7ebc1540aee    21471 test_2017_flickr.de.gz
            76a444ee25172e72695cddb13ae4a3bda59430617be88e0bb46b60504f054074    19138 test_2017_flickr.en.gz
            3ba671ceb2299f3304ffafefea7a833d08632fbaf0ba18546f8a2ec2391af496    20434 test_2017_flickr.fr.gz
            ddd0130c7d97482dc5197a02141dae8dd79f20f03586c480d675c09a32daf608    26461 test_2018_flickr.de.gz
            ef4f4844037d4c5dea75c9a8ed5fd78905967a26f67c255e230cc9780032654d    23514 test_2018_flickr.en.gz
            fb2b83fcceb937a4f7e3e93c1c51c22aba92f1e342391e6b5ba392b16a920501    25321 test_2018_flickr.fr.gz
            726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6   637044 train.de.gz
            d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f   568929 train.en.gz
            622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c   604242 train.fr.gz
            f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a    24681 val.de.gz
            14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28    21650 val.en.gz
            ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9    23001 val.fr.gz
            """,
            "https://raw.githubusercontent.com/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw/",
        ),
    ),
    DataSet(
        name="tatoeba",
        title="translation en-fr en-de",
        examples=311_984,
        licence="CC BY 2.0",
        source="genimind/seq2seq at 4f3f8eb0adde (fr), jhamburg/dats6450_nlp at fc38d83c4353 (de)",
        about=(
            "142,787 pairs en-fr, 169,197 en-de: everyday sentences, in tables without header: column 1 English, "
            "column 2 the other language. Attribution: www.manythings.org/anki and tatoeba.org. No splits, and nearly "
            "sorted by length: shuffle, and split by English sentence, or its other translations leak into the test "
            "part."
        ),
        files=_files(
            """
            71750f704aeb6b0a01fe57341c3051b9efd98f63b61ee266b2c2283d1b80cb71  3995651 deu-eng.zip
            16c4f7d0df9e7c5e6c54cdb0447f3f4a18a55052ff5e2e0b27dd4a06c0e49d04  2951390 fra-eng.zip
            """,
            "https://raw.githubusercontent.com/jhamburg/dats6450_nlp/83156f25185f60cf9da6ff347e4b2c09a4cfab86/",
            "https://raw.githubusercontent.com/genimind/seq2seq/4f3f8eb0adde54fcc8b89394336b002e7961244c/",
        ),
    ),
    DataSet(
        name="squad",
        title="question answering",
        examples=110_042,
        licence="CC BY-SA 4.0",
        source="rajpurkar/SQuAD-explorer at 13f82e35b9a1 (train), e0c66cfec263 (dev)",
        about=(
            "87,599 train 1.1, 10,570 dev 1.1, 11,873 dev 2.0 (5,945 of them without answer); there is no train 2.0. "
            "Rebuilt from the explorer's pages, not the released files: answer_start is the first occurrence of the "
            "answer, train ids are made up."
        ),
        files=_files(
            """
            2edcdf2b1925ee382aefa390842e0fb9910c672953cfad7c2ed6544c03dbe905  4842744 dev-v1.1.json
            fe438fb4b4b6e53e3edda088862e9d3a7c6e2423063a8ee72a3d36c6745f28c4  3884765 dev-v2.0.json
            5ff16b67b3d43d9b455f74514ce40aecf412182dd8cdfefcf8de411c974599f6 29740784 train-v1.1.json
            """
        ),
    ),
    DataSet(
        name="xquad",
        title="questions, 12 languages",
        examples=14_280,
        licence="CC BY-SA 4.0",
        source="google-deepmind/xquad at 7d30520c7175",
        about=(
            "1,190 questions in each of 12 languages, for evaluation. A translation of part of SQuAD 1.1 dev: do not "
            "train on that."
        ),
        files=_files(
            """
            25ddafc153e4cfdafd70729574ef1b44348e1814709e57680d55347038d3f92c    15058 LICENSE.CC-BY-SA-4.0.txt
            abdabd7afed5c635d99cca0f3f0d0c9d9ed0bc77451e963c2e4e0638c29e486d  1582988 xquad.ar.json
            990b5d746746ed65ed4702ea5f35f99ffa4e2f1c390c07d003642acd937916f9   669810 xquad.de.json
            821cf0f88e73fa258fd2f548b19b6ec39f7025059e16f6f9fc8cd797c9c3663e  1918889 xquad.el.json
            e4c57d1c9143aaa1c5d265ba5987a65f4e69528d2a98f29d6e75019b10344f29   609383 xquad.en.json
            dcbae93ec3a9f4b9e78fd834a171d6f96c1a875e10e15b7530b7e4ef4971e37e   684322 xquad.es.json
            df2cce3532b37e9beb8979704b5c9a4bf874358f105395a298b89427b43b9d24  1680538 xquad.hi.json
            94f8d54e93ad2b7dd2e76dd921a666b5b8eff2d4379df9f179c42b445f09643f   661158 xquad.ro.json
            208d5b1aa154c52b1b5c5eda16281e455e8fd198cdb9af3f469f0d6037d973bf  1896368 xquad.ru.json
            5cdda11d0e1e075f7872abf4e6ae830388ce7f617964d542308e9ae4257e0f43  1809143 xquad.th.json
            92179a564774b7696100d144c1e10870d0a966b6fccbdd254a65b9d2ab1971cc   729506 xquad.tr.json
            f619a1eb11fb42d3ab0834259e488a65f585447ef6154437bfb7199d85161a04   911401 xquad.vi.json
            691d0b3359bc6b8faa8de931dfdfe21d50a65861ae348e32a0d1a0190b0c8835   808652 xquad.zh.json
            """
        ),
    ),
    DataSet(
        name="squad_it",
        title="questions, Italian",
        examples=7_609,
        licence="CC BY-SA 4.0",
        source="crux82/squad-it at 86a19baebed6",
        about="For evaluation. Semi-automatic translation; 98 answers differ from their span in letter case.",
        files=_files(
            """
            25986c617cc7d58e82e916755b8a5684e5efae69835332858a6534a304cd293c  1051245 SQuAD_it-test.json.gz
            """
        ),
    ),
    DataSet(
        name="covid_qa",
        title="answers in articles",
        examples=1_593,
        licence="Apache-2.0",
        source="deepset-ai/COVID-QA at fb2eb5e24961",
        about=(
            "1,380 questions over 98 articles, one paragraph each, and 213 frequent questions with answers. 234 of "
            "the 1,380 answer_start do not fit their text: take the nearest occurrence."
        ),
        files=_files(
            """
            ab310b4e39f726e087c8fa3d1787c73771dacddc584977204ebe3cc889ee1264  2697757 200423_covidQA.json
            c71d239df91726fc519c6eb72d318ec65820627232b2f796219e87dcf35d0ab4    11357 LICENSE
            ba7e37cada23dc63fbdb7af7b0c9245773b65f3e3bb0d9fec45cc7bfa057b389   377590 faq_covidbert.csv
            """
        ),
    ),
    DataSet(
        name="glue",
        title="sentences and pairs",
        examples=95_010,
        licence="research terms",
        source="F0restL1n/BERT at 0d0288be0807",
        about=(
            "Train, dev and labelled test: SST-2 67,349 + 872; MRPC 3,667 + 408 + 1,725; STS-B 5,749 + 1,500 + 1,379; "
            "RTE 2,490 + 277; CoLA 8,551 + 1,043. Terms by task: STS-B scores CC BY-SA 4.0, texts by origin; MRPC "
            "Microsoft Research; the others not stated. Without header: CoLA (2 label, 4 sentence) and sts-test (5 "
            "score, 6 and 7 sentences; 284 rows have 2 columns more)."
        ),
        files=_files(
            """
            8c013e21dc39957cac37378d87bebe225b694a0d5fe13eded66c2856628833fd    53717 CoLA/dev.tsv
            cb368ebeb9f27d7ad03720d27ddc95687a311bdb100781a2fe59a5f5b1bc0624   428590 CoLA/train.tsv
            9e8f284788040f7c9ecde2e1b3c07237c756f926bd9ef8548ef5d34b56f69f17   105616 MRPC/dev.tsv
            a04e271090879aaba6423d65b94950c089298587d9c084bf9cd7439bd785f784   441275 MRPC/msr_paraphrase_test.txt
            f178bcc72ab4c2c1c778b480912e0c8e1dba3ead150dc1d490d70682ab888c1e   941277 MRPC/train.tsv
            80230dfa1347282e7b532b06a1004a76a710087541189bf874223ddf0e3819fb    90343 RTE/dev.tsv
            41e3a9b063433392343fad9e962cf2f58b681c78d8f71592f4186f0837246c5c   846226 RTE/train.tsv
            54a9c12c77e402fc14d6a66a506f24d999f596b0176eb777c972cccc2f9cc4b0    94931 SST-2/dev.tsv
            48eac26399f8456935f81dd9e3a745c1430adb6c62e233ccfe22db4a0d15d1d1  3806081 SST-2/train.tsv
            3dfc3217395f8c5dd05c5f8995f25fe2f8fd258e6dd770b3de480749caee8c70     6641 STS-B/LICENSE.txt
            fe7dc0632a5033562f3cadff991f6e8d9b9b6311861660e78c3c82eb7db67f59   276928 STS-B/dev.tsv
            affe45928a66ee5a708531233c95b7dacbbdc57f974f002a3d32ea0180cf816a   282419 STS-B/sts-test.tsv
            41c4d978b6162abdcada7e49a982211954cca5459c228db478af333124b257a2   984099 STS-B/train.tsv
            """
        ),
    ),
    DataSet(
        name="trec_qc",
        title="questions; sentiment",
        examples=16_614,
        licence="none; CC BY 4.0",
        source="nltk/nltk_data at 5db857e6f7df",
        about=(
            "Questions with their class: 5,452 train, 500 test; no licence is stated for them (qc.zip), and a line of "
            "qc/train.txt is Latin-1. Sentences: 5,331 positive, 5,331 negative, no splits, CC BY 4.0 "
            "(sentence_polarity.zip)."
        ),
        files=_files(
            """
            091fb01e50883014d150acb7d5013d787136968b3f955ae01725a65e7e80f304   125456 qc.zip
            6e1ed4405b65c7eabf1d199a7f7c437091ac21da0ea7467b410a74062574566b   490256 sentence_polarity.zip
            """,
            "https://raw.githubusercontent.com/nltk/nltk_data/5db857e6f7df11eabb5e5665836db9ec8df07e28/packages/corpora/",
        ),
    ),
    DataSet(
        name="ud_english_ewt",
        title="tags and dependencies",
        examples=16_622,
        licence="CC BY-SA 4.0",
        source="UniversalDependencies/UD_English-EWT at 15d613d8447b",
        about=(
            "12,544 train, 2,001 dev, 2,077 test sentences in CoNLL-U. Multiword ranges (3-4) and empty nodes (8.1) "
            "occur."
        ),
        files=_files(
            """
            b3d1b0f4c6ae151f7eb78738f46ebd5ee140f8a7f76501ba26af123140d35ae7    20014 LICENSE.txt
            531a54ff90d6ab12201c5a50c3e78e6ddac4de69abc4bce5d275d3cd29efe2b6  1805545 en_ewt-ud-dev.conllu
            e266e515a0a7547657ed3d90d9ba46487d6bd251f27ad4269d4e8a427c8555cd  1804515 en_ewt-ud-test.conllu
            3fb78e2b55482c8ee00caa653af436c88c9e5bc9a73ce26e4ae3ddc79d2b7e7b 14203025 en_ewt-ud-train.conllu
            """
        ),
    ),
    DataSet(
        name="uner_english_ewt",
        title="named entities",
        examples=16_621,
        licence="CC BY-SA 4.0",
        source="UniversalNER/UNER_English-EWT at 8ed072de2fd2 (dev, test), 0c7ce0debb13 (train)",
        about=(
            "12,543 train, 2,001 dev, 2,077 test sentences; PER, LOC, ORG. Train is the first version: map B-OTH, "
            "I-OTH and B-O to O; its O rows have 3 columns, all others 5."
        ),
        files=_files(
            """
            b3d1b0f4c6ae151f7eb78738f46ebd5ee140f8a7f76501ba26af123140d35ae7    20014 LICENSE.txt
            0cafd881cf31d39897b6d588420fab8fbbe4423d271725c59921ac9dd49c0713   620415 en_ewt-ud-dev.iob2
            821ad826d5f503ac03b4edc3fbc2174f21fbb005ec25863caf2051c434616d6e   623751 en_ewt-ud-test.iob2
            2d986b063bb92df99540e37de34b1415eb2a22958b86de3e4698ec3be05e339f  3963291 en_ewt-ud-train.iob2
            """
        ),
    ),
    DataSet(
        name="wnut17",
        title="named entities, noisy",
        examples=5_690,
        licence="CC BY 4.0",
        source="leondz/emerging_entities_17 at e52a2d2a71ac",
        about=(
            "3,394 train, 1,009 dev, 1,287 test sentences; token, tab, tag. In train most sentence breaks are a line "
            "with a single tab."
        ),
        files=_files(
            """
            e053b752b8155113ca66e7db08af5f2f5f43ab993694e4774f1ec5bad42312d8   114749 emerging.dev.conll
            2aa79b764e56ec9264a1b30fdd9b70195bd00ff400b62edd8f399d5f13c178f0   192425 emerging.test.annotated
            731820e13f71af324c6b55a1575ec2ce59fbaa2a0806f8f0400b98d56cd6a7a5   493781 wnut17train.conll
            """
        ),
    ),
    DataSet(
        name="wikitext2",
        title="language modelling",
        examples=8_118,
        licence="CC BY-SA",
        source="pytorch/examples at 77f55b912142 (word_language_model/data/wikitext-2)",
        about=(
            "3,760 lines valid, 4,358 test; train is not part of it. Tokenised by spaces, rare words <unk>. The "
            "licence is that of Wikipedia's text, not stated beside the files."
        ),
        files=_files(
            """
            d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0  1256449 test.txt
            f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8  1121681 valid.txt
            """,
            "https://raw.githubusercontent.com/pytorch/examples/cada773327ba94a5970e0d57c17c847d69dbbb8f/word_language_model/data/wikitext-2/",
            "https://raw.githubusercontent.com/pytorch/examples/37ce9402ff0cae48d764d7788810fd2ed8238b25/word_language_model/data/wikitext-2/",
        ),
    ),
    DataSet(
        name="tinyshakespeare",
        title="language modelling",
        examples=40_000,
        licence="public domain",
        source="pytorch/examples at 77f55b912142 (distributed/minGPT-ddp/mingpt/data)",
        about="40,000 lines, 1,115,394 characters, 65 different ones. No splits.",
        files=_files(
            """
            86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed  1115394 input.txt
            """,
            "https://raw.githubusercontent.com/pytorch/examples/930f7d4e488b7255872c1d4c51e9376dc6039a03/distributed/minGPT-ddp/mingpt/data/",
        ),
    ),
    DataSet(
        name="dailydialog",
        title="dialogues",
        examples=13_118,
        licence="CC BY-NC-SA 4.0",
        source="Ls-Dai/Deep-Reinforcement-Learning-for-Dialogue-Generation-in-PyTorch at bae51b16e3e8",
        about=(
            "11,118 train, 1,000 validation, 1,000 test, one a line, turns end with __eou__; acts and emotions of the "
            "turns beside them. 69 validation and 93 test dialogues also occur in train."
        ),
        files=_files(
            """
            5f9526a5ce4b8af4ca237aa3ff38cbf03becbc596c70b0974d7f5f9af2ea0615   188867 test.zip
            6191257f8250da0e045bfd1d017645e15b2358df975ec4c5c431a5a1f99662a4  2059812 train.zip
            f068cf7526a56ab5f26e99b74ce9edbc2766f7b060a3c6cef035920b0dd28153   191273 validation.zip
            """
        ),
    ),
    DataSet(
        name="crows_pairs",
        title="stereotypes",
        examples=1_508,
        licence="CC BY-SA 4.0",
        source="nyu-mll/crows-pairs at 8aaac11c4854",
        about=(
            "Pairs of sentences, 9 types of bias. Its authors warn of noise and doubtful validity (Blodgett et al. "
            "2021). Offensive text."
        ),
        files=_files(
            """
            dfb36986ce0502abbaf7055b9176da3d08d48e07df1251991b5dfbcbceab9d0c   437764 crows_pairs_anonymized.csv
            """
        ),
    ),
    DataSet(
        name="winomt",
        title="gender in translation",
        examples=3_888,
        licence="MIT",
        source="gabrielStanovsky/mt_gender at 586292861cf2",
        about="Gender, index of the entity, sentence, entity, parted by tabs. Made from WinoBias and Winogender.",
        files=_files(
            """
            a1c44193a0fcc4d4e0fe3c092e60ae0d13bbdff9fce2f5e51967ec67bbc1b18d     1074 LICENSE
            11797c54a74876c4ae63d029e88ec35ded8ee335251c51ff861f8790a7e258af   363069 en.txt
            da3e5744ed70481c80333a082f06fa6696be5db20c12a48a74845b245ce502e1   144358 en_anti.txt
            ed06dd39ca549f8766e4958de15afe706e4f3185c1ec580125d0c71b9f530064   144395 en_pro.txt
            """
        ),
    ),
    DataSet(
        name="winobias",
        title="gender in coreference",
        examples=3_168,
        licence="MIT",
        source="uclanlp/corefBias at 0bce984dd081",
        about="8 files of 396 sentences: a number, then a sentence with [entity] and [pronoun].",
        files=_files(
            """
            fdc813af7e33d0d7852c742a8a3983934d3c1c770014062246883c194c363830     1090 LICENSE
            a4e0ebae344e78b56f657a42e8ae684b9db7747d177c5e7149c0907ebb7f3bf6    32782 anti_stereotyped_type1.txt.dev
            331db5bd74bfefebf146a60b67645152a4a1991570d2a56f57154103ac361dd2    34778 anti_stereotyped_type1.txt.test
            763ad829ad724f9a85ead689ba8ca69072020cb1238def6210f0fc6a47b97e59    30875 anti_stereotyped_type2.txt.dev
            336571ac1ea8c06cd2aba8e5dd2bd98e00acc0c48da3e4ec5ec7e54eb2633a8f    31769 anti_stereotyped_type2.txt.test
            693bff12286c2c1d46c7d4d45a44a631574710c30b39c1a3001bb7bdebb44ed8      177 female_occupations.txt
            6b82d88847b69d56d207a0c396e9830b031890de585e916e6b4e9bc50672657e      169 male_occupations.txt
            dd55a0d220fe4c0ceb63dd4648223fb4fe1a58d5ad95c116a002ad24b0e292a5    32786 pro_stereotyped_type1.txt.dev
            db7838907238a758eeb5779e48f38c013b892910d6fe864456c59f04245c6689    34820 pro_stereotyped_type1.txt.test
            8f0250de723cea9328e3eaf7169e07936f01aa5909ce7aa580db66eb803f4e86    30884 pro_stereotyped_type2.txt.dev
            ea1c1fd94fa612e3cc44d7fa3cc4cb76021bb63fdf94f9826f430051e9052438    31749 pro_stereotyped_type2.txt.test
            """
        ),
    ),
    DataSet(
        name="winogender",
        title="gender by occupation",
        examples=720,
        licence="MIT",
        source="rudinger/winogender-schemas at 1c7f8b481ad8",
        about="Tables with header: 720 sentences, 120 templates, statistics of 60 occupations.",
        files=_files(
            """
            22756588705091904ca7903df15eb7f6ed45a11a7eec0783567295e9502e9316     1072 LICENSE
            bd69da16bf228cb8df63fd0843aec2d8b5c36a7f21bf8c7b168bcc83932556c8    83644 all_sentences.tsv
            3f7f37c16381a70571356982ea7fe613ac700ad04a6d3b19b9f2be18248df567     1578 occupations-stats.tsv
            496f2e2dc77296bcebcdd8865a8dc5715ce22b772de9abb5f531d5b3114c48a0    14903 templates.tsv
            """
        ),
    ),
    DataSet(
        name="bold",
        title="bias in generation",
        examples=23_679,
        licence="CC BY-SA 4.0",
        source="amazon-science/bold at 3ad652c773f5",
        about="Prompts. Groups differ greatly in size (12 for hinduism, 4,839 for European_Americans).",
        files=_files(
            """
            b8019c123e9f9b6c3c677f1b37ac0cc0a652535a5c15ec68ba324c09e476f5d4    18363 LICENSE.md
            a863aaf2492e3c911c39f435005abee2eba5f5edabe836e97de110cd83273054   197705 gender_prompt.json
            a83ea7cc272971b618231e13bcb5c1d1be5b208c92135c4ffde85be31f8ab4c6   116434 political_ideology_prompt.json
            5508012069f20419559417e64d8bb2b8d864ebf8afedd21e5ca564393c291794   510740 profession_prompt.json
            200337f6c43b09671e580b1df6aea2cdc0196ee02779260e9881da07029e1cb6   444732 race_prompt.json
            633830ea87d569e5476895a93f68b8f686cb0dcae6d67a1091a9247c5c4c931d    33223 religious_ideology_prompt.json
            """
        ),
    ),
    DataSet(
        name="nlg_bias",
        title="regard and sentiment",
        examples=1_080,
        licence="none stated",
        source="ewsheng/nlg-bias at 7f8d08ea4f33",
        about=(
            "Label, tab, text, without header: -1 negative, 0 neutral, 1 positive, 2 other. Model-generated, "
            "offensive text."
        ),
        files=_files(
            """
            6d1eb2e617acfb55ddfe0e77f54f836f3093a379934e7aab07b1cb3e6facb5db     5840 regard/dev.tsv
            1ac5fbd901cba6f441c153234eca41cb29d8719529ca81e760213bd9c7813017     3140 regard/test.tsv
            2b734fae84fa82ae969b5183607760c905cd333b90fd27e8d83ed311c6f923b0    21638 regard/train.tsv
            691dc49d3493ea878a77d9a6f3b77b6b01af2a5c3f3bf71d758969e8bf40aff7    24320 regard/train_other.tsv
            2ee7fbd3ce16156ff1ce2be423121aee4b248b6ce69736e7fed080ab3d611bfc     6213 sentiment/dev.tsv
            d2eba2ea9034a10f7f6516ebafd3e61d68f2a9de8f6dc2464b45ef4df097093b     2911 sentiment/test.tsv
            93913b400cd3195b3c2459ca6156b9faa62182125bb9c4b88195617b4b4dfe81    22295 sentiment/train.tsv
            cd46dc4c95232f6e1b91221f40b4335582af351c56b25c9623b77808a4c2c68b    20420 sentiment/train_other.tsv
            """
        ),
    ),
)

SETS: dict[str, DataSet] = {data_set.name: data_set for data_set in _ALL}
