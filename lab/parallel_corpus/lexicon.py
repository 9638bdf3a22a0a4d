"""The words of the corpus, and which of them go together.

Each table has one entry a line. Nouns carry tags, and verbs and adjectives say by these tags, or by the noun itself,
what they go together with.
"""

from collections.abc import Set
from dataclasses import dataclass

LANGUAGES = ("french", "italian")
PERSONS = ("I", "he", "we", "you", "they")  # the order of the forms of a verb; "he" stands for all of the third person


@dataclass(frozen=True, eq=False)
class Noun:
    """A noun with its singular and plural in each language; without a plural if it is not counted."""

    english: tuple[str, ...]
    french: tuple[str, ...]
    italian: tuple[str, ...]
    gender: dict[str, str]  # language -> "m" or "f"
    tags: frozenset[str]
    whole: frozenset[str]  # what it can be a part of, or belong to: "the door of the house"

    @property
    def name(self) -> str:
        return self.english[0]

    @property
    def counted(self) -> bool:
        return len(self.english) == 2

    def fits(self, wanted: Set[str]) -> bool:
        """Whether its name or one of its tags is among ``wanted``."""
        return self.name in wanted or not wanted.isdisjoint(self.tags)


@dataclass(frozen=True, eq=False)
class Adjective:
    """An adjective; its forms in French and Italian: masculine and feminine singular, then masculine and feminine plural."""

    english: str
    french: tuple[str, ...]
    italian: tuple[str, ...]
    place: str  # "before" or "after" the noun; "outer" and "inner" come after it, in the opposite order of English
    tags: frozenset[str]

    def form(self, language: str, gender: str, plural: bool) -> str:
        return getattr(self, language)[2 * plural + (gender == "f")]


@dataclass(frozen=True, eq=False)
class Verb:
    """A verb; its forms in French and Italian are those of ``PERSONS`` and the infinitive."""

    english: tuple[str, str]  # "see", "sees"
    particle: str | None  # "at" of "look at"
    french: tuple[str, ...]
    italian: tuple[str, ...]
    subject: frozenset[str]
    object: frozenset[str]  # empty for an intransitive verb
    kind: str  # "plain", "giving" (to a person), "knowing" (that something is so), "modal", "being"
    politics: bool

    @property
    def name(self) -> str:
        return self.english[0]

    def finite(self, language: str, person: str) -> str:
        return getattr(self, language)[PERSONS.index(person)]

    def infinitive(self, language: str) -> str:
        return getattr(self, language)[len(PERSONS)]


# english; gender and french; gender and italian; tags; what it can belong to
_NOUNS = """
man men; m homme hommes; m uomo uomini; person
woman women; f femme femmes; f donna donne; person
boy boys; m garçon garçons; m ragazzo ragazzi; person
girl girls; f fille filles; f ragazza ragazze; person
child children; m enfant enfants; m bambino bambini; person
teacher teachers; m professeur professeurs; m professore professori; person
student students; m étudiant étudiants; m studente studenti; person
friend friends; m ami amis; m amico amici; person
doctor doctors; m médecin médecins; m medico medici; person
king kings; m roi rois; m re re; person
queen queens; f reine reines; f regina regine; person
mother; f mère; f madre; person kin
father; m père; m padre; person kin
brother brothers; m frère frères; m fratello fratelli; person kin
sister sisters; f sœur sœurs; f sorella sorelle; person kin
dog dogs; m chien chiens; m cane cani; animal
cat cats; m chat chats; m gatto gatti; animal
horse horses; m cheval chevaux; m cavallo cavalli; animal
bird birds; m oiseau oiseaux; m uccello uccelli; animal
cow cows; f vache vaches; f mucca mucche; animal
mouse mice; f souris souris; m topo topi; animal
bread; m pain; m pane; food
meat; f viande; f carne; food
cheese; m fromage; m formaggio; food
apple apples; f pomme pommes; f mela mele; food
cake cakes; m gâteau gâteaux; f torta torte; food
orange oranges; f orange oranges; f arancia arance; food
water; f eau; f acqua; drink
milk; m lait; m latte; drink
wine; m vin; m vino; drink
coffee; m café; m caffè; drink
book books; m livre livres; m libro libri; text; person
letter letters; f lettre lettres; f lettera lettere; text; person
newspaper newspapers; m journal journaux; m giornale giornali; text
story stories; f histoire histoires; f storia storie; text; person
door doors; f porte portes; f porta porte; openable; building room
window windows; f fenêtre fenêtres; f finestra finestre; openable; building room
box boxes; f boîte boîtes; f scatola scatole; openable thing
bag bags; m sac sacs; f borsa borse; openable thing
table tables; f table tables; m tavolo tavoli; thing
chair chairs; f chaise chaises; f sedia sedie; thing
car cars; f voiture voitures; f macchina macchine; thing
hat hats; m chapeau chapeaux; m cappello cappelli; thing
flower flowers; f fleur fleurs; m fiore fiori; thing
mirror mirrors; m miroir miroirs; m specchio specchi; thing
umbrella umbrellas; m parapluie parapluies; m ombrello ombrelli; thing
house houses; f maison maisons; f casa case; building place
hotel hotels; m hôtel hôtels; m albergo alberghi; building place; city village
school schools; f école écoles; f scuola scuole; building place; city village
church churches; f église églises; f chiesa chiese; building place; city village
restaurant restaurants; m restaurant restaurants; m ristorante ristoranti; building place; city village
kitchen kitchens; f cuisine cuisines; f cucina cucine; place; house hotel restaurant
room rooms; f chambre chambres; f camera camere; place; house hotel
garden gardens; m jardin jardins; m giardino giardini; place outdoors; house hotel school
city cities; f ville villes; f città città; place outdoors town
village villages; m village villages; m villaggio villaggi; place outdoors town
street streets; f rue rues; f strada strade; place outdoors; city village
forest forests; f forêt forêts; f foresta foreste; place outdoors landscape
sky; m ciel; m cielo; sight
sun; m soleil; m sole; sight
moon; f lune; f luna; sight
sea; f mer; m mare; sight
star stars; f étoile étoiles; f stella stelle; sight
tree trees; m arbre arbres; m albero alberi; sight landscape
mountain mountains; f montagne montagnes; f montagna montagne; sight landscape
lake lakes; m lac lacs; m lago laghi; sight landscape
island islands; f île îles; f isola isole; sight landscape
government governments; m gouvernement gouvernements; m governo governi; institution; country
parliament parliaments; m parlement parlements; m parlamento parlamenti; institution forum; country
council councils; m conseil conseils; m consiglio consigli; institution
commission commissions; f commission commissions; f commissione commissioni; institution
bank banks; f banque banques; f banca banche; institution
court courts; f cour cours; f corte corti; institution
union unions; f union unions; f unione unioni; institution forum
minister ministers; m ministre ministres; m ministro ministri; official; government
president presidents; m président présidents; m presidente presidenti; official; institution country
judge judges; m juge juges; m giudice giudici; official; court
citizen citizens; m citoyen citoyens; m cittadino cittadini; citizen; country union
country countries; m pays pays; m paese paesi; region forum
area areas; f zone zones; f area aree; region forum
market markets; m marché marchés; m mercato mercati; region; country union
law laws; f loi lois; f legge leggi; act; country union
treaty treaties; m traité traités; m trattato trattati; act
agreement agreements; m accord accords; m accordo accordi; act
reform reforms; f réforme réformes; f riforma riforme; act; law market bank
plan plans; m plan plans; m piano piani; act; government commission council
budget budgets; m budget budgets; m bilancio bilanci; act; government union country
policy policies; f politique politiques; f politica politiche; act; government union country
crisis crises; f crise crises; f crisi crisi; trouble; market bank government
"""

# english; french; italian; place; what it goes together with
_ADJECTIVES = """
big; grand grande grands grandes; grande grande grandi grandi; before; animal thing openable building place landscape
small; petit petite petits petites; piccolo piccola piccoli piccole; before; animal thing openable building place island
young; jeune jeune jeunes jeunes; giovane giovane giovani giovani; before; man woman teacher doctor king queen official
old; vieux vieille vieux vieilles; vecchio vecchia vecchi vecchie; before; man woman teacher doctor king queen animal thing text building
new; nouveau nouvelle nouveaux nouvelles; nuovo nuova nuovi nuove; before; text thing building official act
beautiful; beau belle beaux belles; bello bella belli belle; before; animal flower hat mirror building garden town landscape sea moon story
white; blanc blanche blancs blanches; bianco bianca bianchi bianche; after; animal thing door wine house
black; noir noire noirs noires; nero nera neri nere; after; animal thing door
red; rouge rouge rouges rouges; rosso rossa rossi rosse; after; thing door apple wine
green; vert verte verts vertes; verde verde verdi verdi; after; thing door window apple tree
blue; bleu bleue bleus bleues; blu blu blu blu; after; thing door window sky sea
Italian; italien italienne italiens italiennes; italiano italiana italiani italiane; after; man woman teacher student doctor king queen wine coffee cheese text car city village restaurant official
French; français française français françaises; francese francese francesi francesi; after; man woman teacher student doctor king queen wine cheese text car city village restaurant official
famous; célèbre célèbre célèbres célèbres; famoso famosa famosi famose; after; man woman teacher doctor king queen book story building town island mountain
rich; riche riche riches riches; ricco ricca ricchi ricche; after; man woman doctor king queen bank country town
tired; fatigué fatiguée fatigués fatiguées; stanco stanca stanchi stanche; after; person animal
happy; heureux heureuse heureux heureuses; felice felice felici felici; after; person
sad; triste triste tristes tristes; triste triste tristi tristi; after; person story
sick; malade malade malades malades; malato malata malati malate; after; person animal
fresh; frais fraîche frais fraîches; fresco fresca freschi fresche; after; food water milk
cold; froid froide froids froides; freddo fredda freddi fredde; after; drink sea lake
quiet; tranquille tranquille tranquilles tranquilles; tranquillo tranquilla tranquilli tranquille; after; place lake island
European; européen européenne européens européennes; europeo europea europei europee; outer; institution region official citizen act
national; national nationale nationaux nationales; nazionale nazionale nazionali nazionali; outer; government parliament council commission bank court market law plan budget policy reform crisis
international; international internationale internationaux internationales; internazionale internazionale internazionali internazionali; outer; council commission bank court union market law treaty agreement plan crisis
economic; économique économique économiques économiques; economico economica economici economiche; inner; council commission union area policy treaty agreement reform plan crisis
monetary; monétaire monétaire monétaires monétaires; monetario monetaria monetari monetarie; inner; council commission union area policy agreement reform crisis
financial; financier financière financiers financières; finanziario finanziaria finanziari finanziarie; inner; council commission market law agreement reform plan crisis
social; social sociale sociaux sociales; sociale sociale sociali sociali; inner; council commission policy law reform plan crisis
political; politique politique politiques politiques; politico politica politici politiche; inner; council commission union agreement reform plan crisis
"""

# english; french; italian; subject; object
_PLAIN = """
sleep sleeps; dors dort dormons dormez dorment dormir; dormo dorme dormiamo dormite dormono dormire; person animal
sing sings; chante chante chantons chantez chantent chanter; canto canta cantiamo cantate cantano cantare; person bird
dance dances; danse danse dansons dansez dansent danser; ballo balla balliamo ballate ballano ballare; person
work works; travaille travaille travaillons travaillez travaillent travailler; lavoro lavora lavoriamo lavorate lavorano lavorare; person
run runs; cours court courons courez courent courir; corro corre corriamo correte corrono correre; person dog cat horse mouse
play plays; joue joue jouons jouez jouent jouer; gioco gioca giochiamo giocate giocano giocare; boy girl child dog cat
arrive arrives; arrive arrive arrivons arrivez arrivent arriver; arrivo arriva arriviamo arrivate arrivano arrivare; person
see sees; vois voit voyons voyez voient voir; vedo vede vediamo vedete vedono vedere; person animal; person animal sight building thing forest
look looks at; regarde regarde regardons regardez regardent regarder; guardo guarda guardiamo guardate guardano guardare; person; person animal sight building thing forest
love loves; aime aime aimons aimez aiment aimer; amo ama amiamo amate amano amare; person; person animal sight town forest school
eat eats; mange mange mangeons mangez mangent manger; mangio mangia mangiamo mangiate mangiano mangiare; person; food
drink drinks; bois boit buvons buvez boivent boire; bevo beve beviamo bevete bevono bere; person; drink
read reads; lis lit lisons lisez lisent lire; leggo legge leggiamo leggete leggono leggere; person; text
write writes; écris écrit écrivons écrivez écrivent écrire; scrivo scrive scriviamo scrivete scrivono scrivere; person; book letter story
buy buys; achète achète achetons achetez achètent acheter; compro compra compriamo comprate comprano comprare; person; food drink text thing house hotel restaurant horse cow
sell sells; vends vend vendons vendez vendent vendre; vendo vende vendiamo vendete vendono vendere; person; food drink text thing house hotel restaurant horse cow
open opens; ouvre ouvre ouvrons ouvrez ouvrent ouvrir; apro apre apriamo aprite aprono aprire; person; openable
close closes; ferme ferme fermons fermez ferment fermer; chiudo chiude chiudiamo chiudete chiudono chiudere; person; openable
look looks for; cherche cherche cherchons cherchez cherchent chercher; cerco cerca cerchiamo cercate cercano cercare; person; person animal thing text hotel school church
find finds; trouve trouve trouvons trouvez trouvent trouver; trovo trova troviamo trovate trovano trovare; person; person animal thing text hotel school church
visit visits; visite visite visitons visitez visitent visiter; visito visita visitiamo visitate visitano visitare; person; building town garden island
paint paints; peins peint peignons peignez peignent peindre; dipingo dipinge dipingiamo dipingete dipingono dipingere; person; door flower animal tree mountain lake house church king queen sky sea
"""

_GIVING = """
give gives; donne donne donnons donnez donnent donner; do dà diamo date danno dare; person; food text box bag hat flower mirror umbrella
show shows; montre montre montrons montrez montrent montrer; mostro mostra mostriamo mostrate mostrano mostrare; person; text thing house garden school
"""

_KNOWING = """
know knows; sais sait savons savez savent savoir; so sa sappiamo sapete sanno sapere; person official
say says; dis dit disons dites disent dire; dico dice diciamo dite dicono dire; person official
"""

_POLITICS = """
support supports; soutiens soutient soutenons soutenez soutiennent soutenir; sostengo sostiene sosteniamo sostenete sostengono sostenere; institution official citizen; act institution minister president area
reject rejects; rejette rejette rejetons rejetez rejettent rejeter; respingo respinge respingiamo respingete respingono respingere; institution official citizen; act
accept accepts; accepte accepte acceptons acceptez acceptent accepter; accetto accetta accettiamo accettate accettano accettare; institution official citizen; act
discuss discusses; discute discute discutons discutez discutent discuter; discuto discute discutiamo discutete discutono discutere; institution official; act
finance finances; finance finance finançons financez financent financer; finanzio finanzia finanziamo finanziate finanziano finanziare; institution; plan reform policy
sign signs; signe signe signons signez signent signer; firmo firma firmiamo firmate firmano firmare; official; law treaty agreement
criticise criticises; critique critique critiquons critiquez critiquent critiquer; critico critica critichiamo criticate criticano criticare; institution official citizen; act institution official
propose proposes; propose propose proposons proposez proposent proposer; propongo propone proponiamo proponete propongono proporre; institution official; act
defend defends; défends défend défendons défendez défendent défendre; difendo difende difendiamo difendete difendono difendere; institution official citizen; act region
help helps; aide aide aidons aidez aident aider; aiuto aiuta aiutiamo aiutate aiutano aiutare; institution official; citizen region bank
threaten threatens; menace menace menaçons menacez menacent menacer; minaccio minaccia minacciamo minacciate minacciano minacciare; trouble; region institution
"""

# english, with its form after "he"; french; italian
_MODAL = """
want wants; veux veut voulons voulez veulent vouloir; voglio vuole vogliamo volete vogliono volere
can can; peux peut pouvons pouvez peuvent pouvoir; posso può possiamo potete possono potere
must must; dois doit devons devez doivent devoir; devo deve dobbiamo dovete devono dovere
"""


def _rows(table: str, columns: int) -> list[list[list[str]]]:
    """The words of each cell of a table, each row filled up with empty cells."""
    rows = [[cell.split() for cell in line.split(";")] for line in table.strip().splitlines()]
    return [row + [[]] * (columns - len(row)) for row in rows]


def _noun(row: list[list[str]]) -> Noun:
    english, (french_gender, *french), (italian_gender, *italian), tags, whole = row
    gender = {"french": french_gender, "italian": italian_gender}
    return Noun(tuple(english), tuple(french), tuple(italian), gender, frozenset(tags), frozenset(whole))


def _adjective(row: list[list[str]]) -> Adjective:
    (english,), french, italian, (place,), tags = row
    return Adjective(english, tuple(french), tuple(italian), place, frozenset(tags))


def _verb(row: list[list[str]], kind: str, politics: bool = False) -> Verb:
    (base, third, *particle), french, italian, subject, object_ = row
    return Verb(
        (base, third),
        particle[0] if particle else None,
        tuple(french),
        tuple(italian),
        frozenset(subject),
        frozenset(object_),
        kind,
        politics,
    )


NOUNS = [_noun(row) for row in _rows(_NOUNS, 5)]
ADJECTIVES = [_adjective(row) for row in _rows(_ADJECTIVES, 5)]
VERBS = [
    *(_verb(row, "plain") for row in _rows(_PLAIN, 5)),
    *(_verb(row, "giving") for row in _rows(_GIVING, 5)),
    *(_verb(row, "knowing") for row in _rows(_KNOWING, 5)),
    *(_verb(row, "plain", politics=True) for row in _rows(_POLITICS, 5)),
]
MODALS = [_verb(row, "modal") for row in _rows(_MODAL, 5)]
BE = _verb(
    _rows("be is; suis est sommes êtes sont être; sono è siamo siete sono essere; person animal", 5)[0],
    "being",
)

# Words with one form: english -> (french, italian), each a word or words.
ADVERBS = {"often": ("souvent", "spesso"), "always": ("toujours", "sempre"), "never": ("jamais", "mai")}
TIMES = {"today": ("aujourd'hui", "oggi"), "now": ("maintenant", "adesso"), "every day": ("chaque jour", "ogni giorno")}
CONNECTIVES = {
    "and": ("et", "e"),
    ", but": (", mais", ", ma"),
    "when": ("quand", "quando"),
    "while": ("pendant que", "mentre"),
    "because": ("parce que", "perché"),
    "that": ("que", "che"),
}
NUMERALS = {"two": ("deux", "due"), "three": ("trois", "tre")}
